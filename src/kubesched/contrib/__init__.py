"""The plugins of scheduler-plugins, by their upstream names. They are off by default.

`kubesched.plugins.OFFERED` lists them. Each module is imported only when a profile enables its plugin.
"""
