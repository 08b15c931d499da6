"""The classic measures: functions of the sample's table alone, without a model or draws."""
