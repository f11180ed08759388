"""The logger ``rivulet``, whose lines hold a coordinator's text only after it was cleaned."""

import logging
import numbers

from rivulet._errors import clean


class _Cleans(logging.Filter):
    """Each argument of a line is cleaned separately: a task's name cannot begin a new line."""

    def filter(self, record: logging.LogRecord) -> bool:
        if isinstance(record.args, tuple):
            record.args = tuple(each if isinstance(each, numbers.Real) else clean(str(each)) for each in record.args)
        return True


log = logging.getLogger("rivulet")
if not any(type(each).__name__ == _Cleans.__name__ for each in log.filters):  # a module that is loaded again
    log.addFilter(_Cleans())
