// What credentials are to gRPC. Internal to this folder: credentials.h shows nothing of it.
#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>

#include "engine/base/status.h"
#include "federated/transport/control_api.h"
#include "federated/transport/coordinator_api.h"

namespace rivulet {

// A server's side. Outlives the server's calls.
class ServerSecurity {
 public:
  virtual ~ServerSecurity() = default;
  virtual std::shared_ptr<grpc::ServerCredentials> credentials() = 0;
  // Makes `caller`, as the call's message has it, who the call's connection proves it to be. UNAUTHENTICATED: what the
  // connection showed counts no longer. PERMISSION_DENIED: it shows another, or nobody who takes part.
  virtual Status Identify(const grpc::ServerContextBase& context, Caller* caller) = 0;
  // Which operator has called. Codes as Identify's.
  virtual Status IdentifyOperator(const grpc::ServerContextBase& context, OperatorCaller* caller) = 0;
};

// A client's side of one channel, with all the connections that gRPC makes for it one after the other. Thread-safe.
class ChannelSecurity {
 public:
  virtual ~ChannelSecurity() = default;
  virtual std::shared_ptr<grpc::ChannelCredentials> credentials() = 0;
  // What this side shows, or believes, has been replaced since: another channel is to be made. `at_once`: asks again,
  // also where it was asked a moment ago.
  virtual bool Stale(bool at_once) = 0;
  // The other end has answered a call, in whatever way.
  virtual void Answered() = 0;
  // Why the connection was refused, where it was and this side knows: a part of a sentence. "": it does not know.
  virtual std::string Refusal() = 0;
};

}  // namespace rivulet
