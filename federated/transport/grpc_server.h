// Server of a CoordinatorApi over gRPC (proto/rpc/coordinator.proto). It also serves operators
// (proto/rpc/control.proto) and gRPC's own services: reflection, and health (grpc.health.v1) for the server as a whole
// or for one of the two. All peers that may connect may call these.
//
// A few threads hand calls to the api as they arrive; other threads handle uploads and downloads, so that these never
// delay polls. A stream holds no thread. While one message of an upload is staged, the next is read, and no third: a
// slow disk or a full staging area slows the senders. Messages of bytes carry 256 KiB, or 960 for peers that accept it.
// Few uploads and downloads are under way at once (transfer_places.h), so that a thousand cost little more than one.
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
  // Whether sites of many names may speak here: poll for every client (Serves::kAny) and bring partials and states.
  // Whoever may do so may take every task of the run and bring any sum within the weights' bounds, and no rule of the
  // plan looks at a single update any more; so it is for a federation whose machines are all its operator's. Where it
  // is off they are told PERMISSION_DENIED, and the api does not hear of them.
  bool admit_sites = false;
  // Whether aggregators may: poll for the clients that call them (Serves::kNames), of which each is served through one
  // aggregator or calls itself, and bring partials of these alone. Under TLS that is who has an aggregator's
  // certificate and nobody else. Of the updates of an aggregator's clients nobody here sees one; so it is for
  // aggregators whom the coordinator's operator trusts.
  bool admit_aggregators = false;
  // What a stream that is over them sees is UNAVAILABLE; a client goes on where it was.
  StreamLimits limits;
  // Beyond them an upload or a download waits at its beginning, and is told nothing until its turn.
  TransferLimits transfers;
  // Whether calls of `api` wait for another machine, as an aggregator's do. Then each upload that has its turn has a
  // thread, so that none waits for another one's call.
  bool api_waits = false;
  // What operators may ask; null: nothing. Must outlive the server. Under TLS an operator is who has an operator's
  // certificate and nobody else; without it, who calls from this machine.
  ControlApi* control = nullptr;
  // The listener for refused callers with a revoked certificate; null: none. A thread of the server calls it within two
  // seconds, and never after Stop has returned.
  std::function<void(const RevokedPeer& peer)> on_revoked = nullptr;
};

class GrpcServer {
 public:
  // `api` must outlive the server, or be called no more once Stop has returned. FAILED_PRECONDITION: the credentials
  // refuse this address. UNAVAILABLE: it cannot be listened on, for instance because it is in use.
  static StatusOr<std::unique_ptr<GrpcServer>> Start(CoordinatorApi& api, GrpcServerOptions options);
  virtual ~GrpcServer() = default;             // as Stop(0)
  virtual NetworkAddress address() const = 0;  // with the port chosen
  virtual TransferTotals transferred() const = 0;
  // Takes no new calls, gives those in flight `grace`, then ends them. May be called twice.
  virtual void Stop(std::chrono::milliseconds grace) = 0;
};

}  // namespace rivulet
