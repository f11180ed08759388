// Implementation of _Send and _Recv (engine/ops/send_recv.cc), by the rendezvous of the session's run.
#include "dataflow/placement/rendezvous.h"
#include "dataflow/resources/async_op.h"

namespace rivulet {
namespace {

RendezvousKey KeyOf(const Node& node) {
  RendezvousKey key;
  key.send_device = node.attr<std::string>("send_device");
  key.send_incarnation = static_cast<uint64_t>(node.attr<int64_t>("send_device_incarnation"));
  key.recv_device = node.attr<std::string>("recv_device");
  key.tensor_name = node.attr<std::string>("tensor_name");
  return key;
}

void Send(AsyncContext& context, AsyncDone done) {
  const Status sent = context.scope.Get<Rendezvous>()->Send(KeyOf(context.node).ToString(), context.inputs[0]);
  if (!sent.ok()) return done(sent);
  done(std::vector<Tensor>{});
}

void Recv(AsyncContext& context, AsyncDone done) {
  context.scope.Get<Rendezvous>()->RecvAsync(KeyOf(context.node), context.cancel,
                                             [done = std::move(done)](StatusOr<Tensor> value) {
                                               if (!value.ok()) return done(value.status());
                                               done(std::vector<Tensor>{*std::move(value)});
                                             });
}

RIVULET_ASYNC_OP("_Send", Send);
RIVULET_ASYNC_OP("_Recv", Recv);

}  // namespace
}  // namespace rivulet
