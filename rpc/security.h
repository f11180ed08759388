// Credentials in gRPC's types. For code that serves or calls over gRPC; credentials.h includes nothing of it.
#pragma once

#include <grpcpp/grpcpp.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "certificates/name.h"
#include "engine/base/status.h"
#include "rpc/credentials.h"

namespace rivulet {

// The caller of a call, as its connection proves it.
struct PeerIdentity {
  std::optional<CertificateName> name;  // of its certificate; nullopt without TLS
  std::string serial;                   // of the certificate; "" without TLS
  int64_t certificate_until = 0;        // its last second, since 1970 UTC; 0 without TLS
};

// A server's side. Outlives the server's calls.
class ServerSecurity {
 public:
  virtual ~ServerSecurity() = default;
  virtual std::shared_ptr<grpc::ServerCredentials> credentials() = 0;
  // UNAUTHENTICATED: the certificate that the connection showed is no longer valid.
  virtual StatusOr<PeerIdentity> Identify(const grpc::ServerContextBase& context) = 0;
  // Sets the listener for refused callers with a revoked certificate; null removes it. A thread of this object calls it
  // within two seconds, at most once a second for each certificate. The default implementation never calls it.
  virtual void OnRevoked(std::function<void(const RevokedPeer& peer)> /*on_revoked*/) {}
  // Logs why a caller was refused, if the credentials have a log.
  virtual void LogRefusal(const std::string& sentence) = 0;
};

// A client's side of one channel, with all the connections that gRPC makes for it one after the other. Thread-safe.
class ChannelSecurity {
 public:
  virtual ~ChannelSecurity() = default;
  virtual std::shared_ptr<grpc::ChannelCredentials> credentials() = 0;
  // Whether this side's own or trusted certificates were replaced since, so that another channel must be made.
  // `at_once`: checks again, even right after another check.
  virtual bool Stale(bool at_once) = 0;
  // The other end has answered a call, with any status.
  virtual void Answered() = 0;
  // Why the connection was refused, as part of a sentence; "": it was not, or this side does not know.
  virtual std::string Refusal() = 0;
};

}  // namespace rivulet
