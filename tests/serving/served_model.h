// A version to serve: the softmax regression of four pixels, with weights computed by a formula.
#pragma once

#include <memory>

#include "federated/algorithms/algorithm.h"
#include "serving/loaded_version.h"
#include "tests/client/training/local_plan.h"
#include "tests/testing/four_pixels.h"

namespace rivulet::testing {

inline std::string LogitsOf(const ModelDef&) { return "logits"; }

inline std::shared_ptr<const LoadedVersion> FourPixelsVersion(int64_t number = 1,
                                                              std::vector<std::string> outputs = {}) {
  Scenario scenario = LocalScenario();
  scenario.evaluation.every = 0;
  const auto plan = ComposePlan(scenario, FourPixels());
  EXPECT_OK(plan);
  const auto served = ServedPlan::Create(*plan, {.outputs = std::move(outputs), .scores = LogitsOf});
  EXPECT_OK(served);
  auto version = std::make_shared<LoadedVersion>();
  version->pointed = {number, "run", number, std::string(64, 'a'), std::string(64, 'b')};
  version->plan = *served;
  version->model = FourPixelsBase(**plan);
  return version;
}

}  // namespace rivulet::testing
