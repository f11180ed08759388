// A forgiving standard error: output is dropped instead of failing or blocking.
#pragma once

namespace rivulet {

// From here on whatever this process writes to `stderr` either arrives or is dropped: a full disk, a reader that has
// gone, or a pipe whose reader does not read for a moment (a quarter of a second, and then not at all until it reads
// again) is no error and no wait of the writer. Progress and logs are worth less than the run they tell of, and
// fmt::print throws where a write fails.
//
// Descriptors 0 to 2 that are closed are opened on nothing, so that no file of ours gets one of these numbers and is
// written to by whoever prints; a standard output that was closed still fails when it is written to.
//
// Once, by main(), before other threads and other files. stderr has no file number (fileno) afterwards; STDERR_FILENO
// is what it was.
void MakeStandardErrorForgiving();

}  // namespace rivulet
