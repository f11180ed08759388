// "secagg_plus": Bell et al. 2020, and on a complete graph Bonawitz et al. 2017.
#include "federated/secure/protocol.h"
#include "federated/secure/secagg_client.h"
#include "federated/secure/secagg_server.h"

namespace rivulet::secure {
namespace {

StatusOr<std::unique_ptr<SecureClient>> MakeSecAggClient(const ClientSetup& setup) {
  return SecAggClient::Create(setup);
}

StatusOr<std::unique_ptr<SecureServer>> MakeSecAggServer(const ServerSetup& setup) {
  return SecAggServer::Create(setup);
}

RIVULET_SECURE_PROTOCOL(secagg_plus_registration,
                        {.name = "secagg_plus",
                         .doc = "Pairwise masks whose secrets are shared among neighbours: the coordinator reads sums "
                                "alone. (Bell et al. 2020, arXiv:2006.09462)",
                         .steps = 5,
                         .sum_step = 2,
                         .hides = true,
                         .make_client = MakeSecAggClient,
                         .make_server = MakeSecAggServer});

}  // namespace
}  // namespace rivulet::secure
