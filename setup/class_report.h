// Confusion report of a classifier on a test set: predicted classes by true class, per-class measures, and calibration.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/data/dataset.h"
#include "engine/data/progress.h"
#include "federated/plan/plan.h"
#include "federated/weights/model.h"

namespace rivulet {

// Measures of a class c: precision is the share of predictions c that are right, recall the share of examples of c that
// are predicted as c, f1 their harmonic mean. 0 if the divisor is 0.
struct ClassMeasures {
  int64_t examples = 0;  // of this class
  double precision = 0, recall = 0, f1 = 0;
};

struct ClassReport {
  int64_t classes = 0;
  std::vector<int64_t> counts;     // [label × classes + prediction]
  std::vector<std::string> names;  // of classes, if the caller knows them (setup/class_names.h)

  // Examples with the softmax of the highest score between bin/10 and (bin+1)/10: their number, the number of right
  // predictions, and their confidence.
  struct Bin {
    int64_t examples = 0, right = 0;
    double confidence = 0;  // the sum, not the mean
  };
  std::array<Bin, 10> calibration;

  int64_t at(int64_t label, int64_t taken_for) const {
    return counts[static_cast<size_t>(label * classes + taken_for)];
  }
  int64_t examples() const;
  ClassMeasures OfClass(int64_t label) const;
  // Expected calibration error (Guo et al. 2017, "On Calibration of Modern Neural Networks", equation 3): the mean gap
  // between confidence and accuracy over the bins, weighted by their examples.
  double CalibrationError() const;
};

// Whether a model with these scores predicts one class per example, not numbers or several labels.
bool TellsClasses(const ModelDef& model, const std::string& scores);

// Runs `model` over `test` with the plan's graph; `scores` is the tensor with a score for each class, [batch, classes]
// or [batch, positions, classes]. The first of equal scores counts, as in the metrics. Uses one core. INVALID_ARGUMENT:
// a model that predicts no classes, scores of another shape, or more than kMostClassesReported classes. Errors of
// examples name file, record and byte; `progress` counts examples.
inline constexpr int64_t kMostClassesReported = 1000;
StatusOr<ClassReport> ReportClasses(const Plan& plan, std::shared_ptr<const Dataset> test, const Model& model,
                                    const std::string& scores, int64_t batch_size, const DataProgress& progress);

}  // namespace rivulet
