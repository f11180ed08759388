// A constant learning rate.
#include "federated/server_optimizers/schedule.h"

namespace rivulet {
namespace {

RIVULET_SERVER_SCHEDULE(server_constant_registration, {.name = "constant", .doc = "keeps it"});

}  // namespace
}  // namespace rivulet
