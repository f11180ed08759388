// Server of a CoordinatorApi over gRPC (proto/rpc/coordinator.proto). It also serves operators
// (proto/rpc/control.proto) and gRPC's own services: reflection, and health (grpc.health.v1) for the server as a whole
// or for one of the two. All peers that may connect may call these.
//
// A few threads pass calls to the api as they arrive; other threads handle uploads and downloads, so that these never
// delay polls. A stream holds no thread. While one message of an upload is staged, the next is read, but no third: a
// slow disk or a full staging area slows the senders. Messages of bytes have 256 KiB, or 960 for fast peers. Few
// uploads and downloads run concurrently (transfer_places.h), so that a thousand cost little more than one.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "engine/base/status.h"
#include "federated/transport/control_api.h"
#include "federated/transport/coordinator_api.h"
#include "rpc/credentials.h"
#include "rpc/stream_guard.h"
#include "rpc/transfer_places.h"
#include "rpc/transfer_totals.h"

namespace rivulet {

struct GrpcServerOptions {
  NetworkAddress listen;  // port 0: any free one
  std::shared_ptr<const TransportCredentials> credentials;
  // True if sites with many clients may poll for every client (Serves::kAny) and submit partial sums and states. Such a
  // site can take every task of the run and submit any sum within the weights' bounds, and no rule of the plan sees
  // single updates. So enable it only if the operator controls all machines. If disabled, such calls get
  // PERMISSION_DENIED without reaching the api.
  bool admit_sites = false;
  // True if aggregators may poll for their clients (Serves::kNames) and submit partial sums of these alone. Each
  // client is served by one aggregator or calls itself. With TLS an aggregator's certificate is required. The
  // coordinator never sees single updates of an aggregator's clients, so enable it only for aggregators that its
  // operator trusts.
  bool admit_aggregators = false;
  // A stream beyond the limits gets UNAVAILABLE; a client then resumes.
  StreamLimits limits;
  // Beyond these limits an upload or download waits in a queue before its first byte.
  TransferLimits transfers;
  // True if calls of `api` wait for another machine, as an aggregator's do. Then each upload that has its turn has a
  // thread, so that none waits for another one's call.
  bool api_waits = false;
  // The operators' interface; null: none. Must outlive the server. With TLS operators need an operator's certificate;
  // without, any caller from this machine is an operator.
  ControlApi* control = nullptr;
  // Listener for refused callers with a revoked certificate; null: none. A thread of the server calls it within two
  // seconds, and never after Stop has returned.
  std::function<void(const RevokedPeer& peer)> on_revoked = nullptr;
};

class GrpcServer {
 public:
  // `api` must outlive the server, or must not be needed after Stop has returned. FAILED_PRECONDITION: the credentials
  // do not allow this address. UNAVAILABLE: cannot listen on it, for instance because it is in use.
  static StatusOr<std::unique_ptr<GrpcServer>> Start(CoordinatorApi& api, GrpcServerOptions options);
  virtual ~GrpcServer() = default;             // calls Stop(0)
  virtual NetworkAddress address() const = 0;  // with the chosen port
  virtual TransferTotals transferred() const = 0;
  // Accepts no new calls, allows pending ones to finish within `grace`, then cancels them. May be called twice.
  virtual void Stop(std::chrono::milliseconds grace) = 0;
};

}  // namespace rivulet
