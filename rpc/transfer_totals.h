// Total bytes of a server's uploads and downloads since its start.
#pragma once

#include <cstdint>

namespace rivulet {

struct TransferTotals {
  int64_t up = 0, down = 0;
  // As they went over the wire: packed where both ends do that, and with the heads of their messages; what TLS adds is
  // not in it.
  int64_t up_wire = 0, down_wire = 0;
};

}  // namespace rivulet
