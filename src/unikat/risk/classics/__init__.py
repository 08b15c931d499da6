"""Classic measures: functions of a table of cells, without draws."""
