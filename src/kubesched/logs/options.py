"""kube-scheduler's logging flags: their validation, and the log that they describe."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import BinaryIO

from kubesched.logs.formats import Format, JsonFormat, TextFormat
from kubesched.logs.levels import LoggingProblem as LoggingProblem
from kubesched.logs.levels import VModule
from kubesched.logs.logger import Logger
from kubesched.logs.output import Output

FORMATS = ("json", "text")


@dataclass(frozen=True, slots=True)
class LoggingOptions:
    """``--logging-format``, ``-v``, ``--vmodule``, ``--log-flush-frequency`` and the alpha ``--log-*`` of the format.

    Upstream refuses the last two unless the feature gate LoggingAlphaOptions is on; `alpha` says that it is.
    """

    format: str = "text"
    verbosity: int = 0
    vmodule: str = ""
    flush_frequency: float = 5.0
    split_stream: bool = False
    info_buffer_size: int = 0
    alpha: bool = False

    def problems(self) -> list[str]:
        """Everything wrong with these options, in upstream's words."""
        found: list[str] = []
        if self.flush_frequency <= 0:
            found.append(f'flushFrequency: Invalid value: "{self.flush_frequency:g}s": Must be greater than zero')
        if self.format not in FORMATS:
            found.append(f'format: Invalid value: "{self.format}": Unsupported log format')
        if not 0 <= self.verbosity < 2**31:
            found.append(f"verbosity: Invalid value: {self.verbosity}: Must be <= {2**31 - 1}")
        if self.vmodule and self.format != "text":
            found.append("vmodule: Forbidden: Only supported for text log format")
        if not self.alpha:
            given = {"splitStream": self.split_stream, "infoBufferSize": self.info_buffer_size}
            found += [
                f"options.{self.format}.{name}: Forbidden: Feature LoggingAlphaOptions is disabled"
                for name, value in given.items()
                if value
            ]
        return found

    def logger(self, stdout: BinaryIO | None = None, stderr: BinaryIO | None = None) -> Logger:
        """The log that these options describe. Everything goes to stderr, unless the streams are split.

        Raises `LoggingProblem` with everything that is wrong.
        """
        problems = self.problems()
        if problems:
            raise LoggingProblem(problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]")
        errors = Output(stderr or sys.stderr.buffer)
        info = Output(stdout or sys.stdout.buffer, self.info_buffer_size) if self.split_stream else errors
        line: Format = TextFormat() if self.format == "text" else JsonFormat()
        return Logger(line, info, errors, verbosity=self.verbosity, vmodule=VModule(self.vmodule))
