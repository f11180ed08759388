// Which program this is.
#pragma once

namespace rivulet {

// "rivulet 0.1.0" on stdout.
void PrintVersion();

}  // namespace rivulet
