// The terminal that stderr may be.
#pragma once

#include <cstddef>

namespace rivulet {

// Whether lines can be drawn anew on it.
bool StderrIsTerminal();
// How many characters fit in a line of it, less the one where the cursor would wrap; 79 where that is not known.
size_t TerminalColumns();

}  // namespace rivulet
