"""What tests/fuzz/fuzz_text.py begins with holds, so that it ends at a finding only."""


import pytest
from fuzz_text import readers


@pytest.mark.parametrize("reader", readers(), ids=lambda reader: reader.name)
def test_seeds(reader):
    for text in reader.seeds:
        assert reader.read(text)
    assert reader.read("\0") == reader.read("\t\0")
