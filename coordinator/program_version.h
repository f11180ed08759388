// Version of the program that writes a run.
#pragma once

#include <string_view>

namespace rivulet {

std::string_view ProgramVersion();

}  // namespace rivulet
