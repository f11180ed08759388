// The means of A and of B. Inexact: with A_k = A + a_k and B_k = B + b_k the mean of the products A_k · B_k differs
// from the product of the means by the covariance of a_k and b_k, which is of second order in the clients' steps.
#include "federated/algorithms/adapter_rule.h"

namespace rivulet {
namespace {

RIVULET_ADAPTER_RULE(average_adapters_registration,
                     {.name = "average",
                      .doc = "takes the mean of A and the mean of B, whose product is near the mean of the products",
                      .compose = [](const AdapterContext&, Composition&) -> Status { return absl::OkStatus(); }});

}  // namespace
}  // namespace rivulet
