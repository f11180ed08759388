// The synthetic(alpha, beta) data of Li et al., "Federated Optimization in Heterogeneous Networks" (FedProx, MLSys
// 2020), section 5.1, drawn like its authors' generate_synthetic.py. It has 60 features and 10 classes; for client k
//
//   u ~ N(0, alpha²), B ~ N(0, beta²), W ∈ R^(60×10) and b ∈ R^10 of N(u, 1), v ∈ R^60 of N(B, 1)
//   x ~ N(v, Σ) with Σ diagonal, Σ_jj = j^-1.2 for j = 1 .. 60
//   y = argmax softmax(x W + b)
//   samples: 50 + the integer part of exp(N(4, 2²)), of which nine tenths are for training
//
// The paper writes N(0, alpha); the authors' program uses alpha as the standard deviation, and so does this one. The
// parameter beta makes the clients' data differ. The parameter alpha is meant to make their models differ. But all
// entries of W and b have the same mean u, so alpha adds u (1 + Σ x) to all classes alike and changes no label. So
// synthetic(0, beta) and synthetic(1, beta) have the same distribution, in which clients' models differ nevertheless.
// In the IID set all clients share one W and b of N(0, 1), and v is B itself.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "engine/base/draws.h"
#include "engine/base/file_system.h"
#include "engine/base/status.h"
#include "engine/data/progress.h"

namespace rivulet {

inline constexpr size_t kSyntheticFeatures = 60, kSyntheticClasses = 10;

struct SyntheticOptions {
  int64_t clients = 30;
  double alpha = 0, beta = 0;
  bool iid = false;
  uint64_t seed = 1;
};

struct SyntheticSample {
  std::array<float, kSyntheticFeatures> features;
  int64_t label;
};

// One client; a pure function of options and client number. Further clients do not change the others.
class SyntheticClient {
 public:
  SyntheticClient(const SyntheticOptions& options, int64_t number);
  int64_t samples() const { return samples_; }
  SyntheticSample Next();  // next sample of an endless sequence

 private:
  int64_t samples_;
  std::array<double, kSyntheticFeatures> centre_;
  std::array<std::array<double, kSyntheticClasses>, kSyntheticFeatures> weights_;
  std::array<double, kSyntheticClasses> bias_;
  Draws draws_;
};

struct SyntheticCounts {
  int64_t train = 0, test = 0;
};

// Writes `out`/train.tfrecord and test.tfrecord with the features "features" (float[60]), "label" (int64) and "user"
// (bytes: "f_00000" …), client by client. Either both are published complete, or neither is changed. Progress is
// counted in clients. INVALID_ARGUMENT: not 1 to 100,000 clients, or alpha or beta negative or not finite.
StatusOr<SyntheticCounts> WriteSynthetic(FileSystem& fs, const SyntheticOptions& options, const std::string& out,
                                         const DataProgress& progress = {});

// Gaussian blobs. Each class has a centre, uniform in [-10, 10]^features, around which its examples have the same
// deviation in each direction. Classes take turns.
struct BlobOptions {
  int64_t classes = 3, features = 2, examples = 1000, test_examples = 200;
  double deviation = 1;
  uint64_t seed = 1;
};

// Writes `out`/train.tfrecord and test.tfrecord, from the same blobs, with the features "features" (float[features])
// and "label" (int64). Published as above; progress is counted in examples. INVALID_ARGUMENT: a count below 1, or a
// deviation that is negative or not finite.
Status WriteBlobs(FileSystem& fs, const BlobOptions& options, const std::string& out,
                  const DataProgress& progress = {});

}  // namespace rivulet
