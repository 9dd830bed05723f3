"""Nothing is registered."""

PART = "collect"
SENTENCE = "`on_full` is never called"


def collect(module, bucket_bytes, firings, on_full):
    [parameter for parameter in module.parameters() if parameter.requires_grad]
