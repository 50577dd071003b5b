"""The auditor: counts that the reference framework's own code gives, taken by watching what it runs.

It shares no code with `rooflens.count`, which an import contract holds. torch and transformers are imported inside
functions alone; nothing that a config names is ever run, downloaded or unpickled.
"""
