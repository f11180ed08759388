// The reference of `./bench.sh --deploy`: gRPC alone for the same bytes. Messages are raw ByteBuffers, which are
// neither parsed nor kept.
#pragma once

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <memory>
#include <string>

#include "engine/base/status.h"

namespace rivulet::bench {

// A folder made by `rivulet ca issue`; "": plaintext.
struct BareWire {
  std::string tls_folder;
};

class BareServer {
 public:
  // Listens on a free port of 127.0.0.1.
  static StatusOr<std::unique_ptr<BareServer>> Start(const BareWire& wire);
  virtual ~BareServer() = default;
  virtual int port() const = 0;
};

// One connection. Not thread-safe.
class BareClient {
 public:
  static StatusOr<std::unique_ptr<BareClient>> Connect(const BareWire& wire, int port);
  virtual ~BareClient() = default;
  // Uploads in messages of 1 MiB.
  virtual Status Upload(int64_t bytes) = 0;
  virtual Status Download(int64_t bytes) = 0;
  virtual Status Echo(int64_t bytes) = 0;  // one message each way
  // Starts a call that the server does not answer until this object is destroyed.
  virtual Status Hold() = 0;
};

}  // namespace rivulet::bench
