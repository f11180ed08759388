// Makes docs/reference/session_options.md from the rules of session_options.h and TensorFlow's messages.
#pragma once

#include <string>

namespace rivulet::testing {

std::string OptionsPage();

}  // namespace rivulet::testing
