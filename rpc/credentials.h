// Credentials by which the two ends of a connection authenticate. Servers and clients accept credentials without
// inspecting them, so that a new kind of credentials is added here without touching either.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "engine/base/status.h"

namespace rivulet {

class WatchedIdentity;  // certificates/watched_identity.h

// "HOST:PORT", with an IPv6 host in brackets.
struct NetworkAddress {
  std::string host;         // without brackets
  int port = 0;             // 0 .. 65535; 0 lets a server choose
  bool IsLoopback() const;  // 127.0.0.0/8, ::1 or "localhost"
  std::string ToString() const;
};
// INVALID_ARGUMENT names the fault of `text`.
StatusOr<NetworkAddress> ParseAddress(std::string_view text);

// Whether gRPC's text for the other end of a connection is loopback: "ipv4:127.0.0.1:4711", "ipv6:%5B::1%5D:4711".
bool IsLoopbackPeer(std::string_view peer);

// A caller that a server has refused because its certificate is revoked.
struct RevokedPeer {
  std::string name;  // as in the certificate: "client/ID"
  std::string serial;
  std::string sentence;  // why it was refused, and when it was revoked
};

class ServerSecurity;   // rpc/security.h
class ChannelSecurity;  // rpc/security.h

class TransportCredentials {
 public:
  virtual ~TransportCredentials() = default;
  // Whether they may be used with `address`: FAILED_PRECONDITION says why not.
  virtual Status Check(const NetworkAddress& address) const = 0;
  // Make the credentials of one server, and of one channel to `server`.
  virtual StatusOr<std::unique_ptr<ServerSecurity>> ForServer() const = 0;
  virtual std::unique_ptr<ChannelSecurity> ForChannel(const NetworkAddress& server) const = 0;
};

// Plaintext: any user who can reach the port can read, and claim any name. Beyond loopback only if `beyond_loopback`.
std::shared_ptr<const TransportCredentials> InsecureCredentials(bool beyond_loopback);

// Mutual TLS 1.3 with the certificate, key, authority and revocation list of `identity`. It follows replacements: they
// apply to the next connection, revocations and expiries to the next call too. A caller's name is its certificate's,
// and a server's certificate must list the host that its callers dial. Peers' certificates are verified by
// certificates/verify.h alone. The service decides which roles may call (PeerIdentity). `tell` receives the reason why
// a peer was refused, once a minute per reason; in a server, on any thread.
std::shared_ptr<const TransportCredentials> TlsCredentials(std::shared_ptr<WatchedIdentity> identity,
                                                           std::function<void(const std::string& sentence)> tell);

}  // namespace rivulet
