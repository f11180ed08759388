// A constant learning rate.
#include "federated/plan/schedule.h"

namespace rivulet {
namespace {

RIVULET_SCHEDULE(constant_registration, {.name = "constant", .doc = "keeps it"});

}  // namespace
}  // namespace rivulet
