"""What each framework is: its flags, ports, process groups, processes and stacks."""
