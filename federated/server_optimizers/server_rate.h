// The learning rate of the server, from version to version: server.schedule.
#pragma once

#include <cstdint>

#include "federated/scenario/scenario.h"

namespace rivulet {

// The rate with which `version` is made, 1 being the first: with t = version − 1 and u = max(0, t − warmup),
//
//   learning_rate · min(1, (t + 1) / warmup) · decay(u),  with p = min(1, u / length) in
//   step     decay_rate ^ floor(u / length)
//   cosine   end + (1 − end) · (1 + cos(π p)) / 2        Loshchilov and Hutter, ICLR 2017, without restarts
//   inverse  1 / (1 + u / length)                        Robbins and Monro 1951
//
// Of sums, products and quotients alone, which round the same on every machine.
double ServerLearningRate(const ServerConfig& server, int64_t version);

}  // namespace rivulet
