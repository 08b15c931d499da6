"""Files and frames to coded keys and the table of occupied patterns."""

from unikat.data.codebook import load_codebook
from unikat.data.design import Design
from unikat.data.keys import Key
from unikat.data.microdata import Microdata
from unikat.data.readers import read
from unikat.data.table import CellTable, Missing

__all__ = ["CellTable", "Design", "Key", "Microdata", "Missing", "load_codebook", "read"]
