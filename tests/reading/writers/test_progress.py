from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unstall.model.facts import Place
from unstall.reading.line import Line
from unstall.reading.writers.progress import ProgressBars, rate, seconds


def state(fact):
    return (fact.label, fact.done, fact.total, fact.percent, fact.elapsed, fact.remaining)


@pytest.mark.parametrize(
    ("line", "expected", "per_second"),
    [
        (
            "Train: 62%|██████▏ | 5559/9008 [9:33:11<5:18:51, 5.55s/it]",
            ("Train", 5559, 9008, 62.0, 34391.0, 19131.0),
            1 / 5.55,
        ),
        ("  0%|          | 0/48 [00:00<?, ?it/s]", ("", 0, 48, 0.0, 0.0, None), None),
        (
            "100%|##########| 3/3 [00:01<00:00,  2.50it/s]",
            ("", 3, 3, 100.0, 1.0, 0.0),
            2.5,
        ),
        (
            "Map (num_proc=8):  12%|█▏        | 120/1000 [00:10<01:13, 12.0 examples/s]",
            ("Map (num_proc=8)", 120, 1000, 12.0, 10.0, 73.0),
            12.0,
        ),
        (
            "Epoch 0:  25%|██▌       | 25/100 [25:10:00<75:30:00,  0.00it/s, v_num=3]",
            ("Epoch 0", 25, 100, 25.0, 90600.0, 271800.0),
            0.0,
        ),
        (
            "model.safetensors:  50%|█████     | 2.50G/5.00G [00:30<00:30, 83.3MB/s]",
            ("model.safetensors", 2_500_000_000, 5_000_000_000, 50.0, 30.0, 30.0),
            83.3e6,
        ),
        (
            "Epoch: [3]  [ 820/2502]  eta: 0:51:04  loss: 0.2291  time: 1.8217",
            ("Epoch: [3]", 820, 2502, None, None, 3064.0),
            None,
        ),
        (
            " [2026-03-04 10:00:00] iteration       12/     100 | consumed samples: 96 |",
            ("iteration", 12, 100, None, None, None),
            None,
        ),
        (
            "Generating train split: 2981204 examples [00:21, 139024.33 examples/s]",
            ("Generating train split", 2981204, None, None, 21.0, None),
            139024.33,
        ),
        (
            "Epoch 0/9 ━━━━━╸━━━━ 12/100 0:00:10 • 0:01:20 1.10it/s",
            ("Epoch 0/9", 12, 100, None, 10.0, 80.0),
            1.1,
        ),
    ],
)
def test_shapes(read, line, expected, per_second):
    (fact,) = read(ProgressBars, line + "\n")
    assert state(fact) == expected
    assert fact.unit_rate == (None if per_second is None else pytest.approx(per_second))


def test_bars_glued_together(read):
    facts = read(
        ProgressBars,
        "  0%|          | 0/48 [00:00<?, ?it/s]  2%|▏         | 1/48 [00:00<00:14,  3.29it/s]"
        "Eval: 100%|██████████| 48/48 [00:00<00:00, 103.13it/s]\n",
    )
    assert [(fact.label, fact.done) for fact in facts] == [("", 0), ("", 1), ("Eval", 48)]


def test_what_stands_before_a_glued_bar_is_its_label(read):
    facts = read(
        ProgressBars,
        " 100%|██████████| 412/412 [1:58:12<00:00, 17.21s/it]1|412|Loss: 0.7713: "
        "100%|██████████| 412/412 [1:58:12<00:00, 17.19s/it]\n",
    )
    assert [fact.label for fact in facts] == ["", "1|412|Loss: 0.7713"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("00:21", 21.0),
        ("1:58:12", 7092.0),
        ("1 day, 2:03:04", 93784.0),
        ("2d 00:00:01", 172801.0),
        ("?", None),
        ("", None),
        ("12", None),
    ],
)
def test_seconds(text, expected):
    assert seconds(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [("4.00s/it", 0.25), ("500ms/it", 2.0), ("?it/s", None), ("1.5k examples/s", 1500.0)],
)
def test_rates(text, expected):
    assert rate(text) == expected


def test_hours_of_bars_are_thinned_but_never_lose_the_last():
    reader = ProgressBars()
    count = 0
    for number in range(25_000):
        text = f"t: 1%|█ | {number}/99999 [00:01<00:02, 1.0it/s]"
        line = Line(place=Place("log", number + 1), text=text, raw=text)
        count += len(list(reader.feed(line)))
    last = list(reader.finish())
    assert count == 20_000
    assert [fact.done for fact in last] == [24_999]


@given(
    done=st.integers(0, 10**9),
    total=st.integers(1, 10**9),
    percent=st.integers(0, 100),
    hours=st.integers(0, 99),
    minutes=st.integers(0, 59),
    speed=st.decimals(min_value="0.01", max_value="9999", places=2),
)
def test_any_numbers_come_back(done, total, percent, hours, minutes, speed):
    text = f"x:{percent:3}%|███   | {done}/{total} [{hours}:{minutes:02}:07<00:09, {speed}it/s]"
    (fact,) = ProgressBars().feed(Line(place=Place("log", 1), text=text, raw=text))
    assert (fact.done, fact.total, fact.percent) == (done, total, percent)
    assert fact.elapsed == hours * 3600 + minutes * 60 + 7
    assert fact.unit_rate == pytest.approx(float(speed))
