// The ruler of `./bench.sh --deploy`: what gRPC alone takes for the same bytes. Messages are raw ByteBuffers, nobody
// looks into them, and nothing is kept of them.
#pragma once

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <memory>
#include <string>

#include "engine/base/status.h"

namespace rivulet::bench {

// A folder of `rivulet ca issue`; "": plaintext.
struct BareWire {
  std::string tls_folder;
};

class BareServer {
 public:
  // On a free port of 127.0.0.1.
  static StatusOr<std::unique_ptr<BareServer>> Start(const BareWire& wire);
  virtual ~BareServer() = default;
  virtual int port() const = 0;
};

// One connection. Not thread-safe.
class BareClient {
 public:
  static StatusOr<std::unique_ptr<BareClient>> Connect(const BareWire& wire, int port);
  virtual ~BareClient() = default;
  // In messages of 1 MiB.
  virtual Status Upload(int64_t bytes) = 0;
  virtual Status Download(int64_t bytes) = 0;
  virtual Status Echo(int64_t bytes) = 0;  // one message each way
  // A call that the server does not answer, until this goes.
  virtual Status Hold() = 0;
};

}  // namespace rivulet::bench
