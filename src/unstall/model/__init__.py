"""The vocabulary that every part shares; holds no behaviour beyond what a value can say of itself.

* :mod:`~unstall.model.text` - sentences for users, kept apart from their language
* :mod:`~unstall.model.facts` - what was said, by whom, when and where it stands
* :mod:`~unstall.model.plan` - the programs that were launched and what each was given
* :mod:`~unstall.model.findings` - what a cause claims, and the diagnosis made of such claims
"""
