// The icon of the pages, as text in the binary.
#include "pages/pages.h"

namespace rivulet {

// Three rivulets that join.
std::string_view Icon() {
  return R"svg(<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><path d="M2 1c0 7 6 5 6 10v4M14 1c0 7-6 5-6 10M8 1v8"
fill="none" stroke="#0072B2" stroke-width="2" stroke-linecap="round"/></svg>
)svg";
}

}  // namespace rivulet
