// Total bytes of a server's uploads and downloads since its start.
#pragma once

#include <cstdint>

namespace rivulet {

struct TransferTotals {
  int64_t up = 0, down = 0;
  // As sent over the wire: compressed if both ends support it, and with the messages' heads, but without the overhead
  // of TLS.
  int64_t up_wire = 0, down_wire = 0;
};

}  // namespace rivulet
