// Privacy loss of a member that takes part with some probability.
#pragma once

namespace rivulet::privacy {

// log(1 - rate + rate * e^loss), without overflow: the loss behind sampling where taking part has the loss `loss`.
double SampledLoss(double rate, double loss);
// Its inverse in the loss; -infinity below log(1 - rate).
double UnsampledLoss(double rate, double sampled_loss);

}  // namespace rivulet::privacy
