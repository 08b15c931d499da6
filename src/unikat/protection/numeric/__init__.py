"""Continuous variables: methods, and the risk and the utility of the changed columns."""
