// Number of examples of each client, for partitioners that do not determine it.
#pragma once

#include "setup/partitioners/partitioner.h"

namespace rivulet {

// The option "sizes" of a partitioner with free sizes, and the pieces it chooses: a "law of sizes" with its own
// options.
Setting SizesSetting();
std::map<std::string, std::string, std::less<>> ChoosesSizes();

// The end of each client's part, by data.partition.sizes, for a partitioner with that option. Every client gets one
// example; the others are divided in proportion to a weight w of client i = 0 .. clients - 1, rounded so that they add
// up:
//   even          w = 1, and sizes differ by one example at most
//   linear        w = i + 1
//   square        w = (i + 1)²
//   exponential   w = exp(skew × i)
//   power_law     w = (i + 1)^-skew, the first client the largest
//   lognormal     ln w is drawn from Normal(0, skew²), as the sizes of Li et al. (FedProx, MLSys 2020) with skew = 2
//   dirichlet     w is drawn from Dirichlet(size_alpha), the quantity skew of Li et al. ("Federated Learning on Non-IID
//                 Data Silos: An Experimental Study", ICDE 2022)
// linear, square and exponential are Flower's partitioners of these names. A client costs its end and nothing else.
// INVALID_ARGUMENT: a name that is none of these, an option out of range.
StatusOr<std::vector<uint64_t>> SizeEnds(const PartitionRequest& request);

}  // namespace rivulet
