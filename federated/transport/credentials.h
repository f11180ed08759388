// How the two ends of a connection prove who they are. Servers and clients take credentials and do not look inside, so
// that a kind of credentials is added here without touching either.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "engine/base/status.h"

namespace rivulet {

// "HOST:PORT", with an IPv6 host in brackets.
struct NetworkAddress {
  std::string host;         // without brackets
  int port = 0;             // 0 .. 65535; 0 lets a server choose
  bool IsLoopback() const;  // 127.0.0.0/8, ::1 or "localhost"
  std::string ToString() const;
};
// INVALID_ARGUMENT says what is wrong with `text`.
StatusOr<NetworkAddress> ParseAddress(std::string_view text);

class TransportCredentials {
 public:
  virtual ~TransportCredentials() = default;
  // Whether they may be used with `address`: FAILED_PRECONDITION says why not.
  virtual Status Check(const NetworkAddress& address) const = 0;
};

// Plaintext: whoever can reach the port can read and claim to be anybody. Beyond loopback only when `beyond_loopback`.
std::shared_ptr<const TransportCredentials> InsecureCredentials(bool beyond_loopback);

}  // namespace rivulet
