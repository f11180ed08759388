// Parser of a plan message, one part after another, each checked against the earlier ones. The order, and checks across
// several parts, are in plan_reader.cc; each file read_….cc has one part.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"
#include "federated/plan/plan.h"
#include "proto/federated/plan.pb.h"

namespace rivulet {

// Plans are not trusted. All errors are found here and named in the plan's words, so that any Plan object can be
// compiled and run; clients never meet a missing variable in the middle of training.
class PlanReader {
 public:
  // Plan::Open.
  static StatusOr<std::shared_ptr<const Plan>> Read(std::string bytes);

 private:
  // Checks a name from outside, because names appear in messages, rows and files.
  static Status CheckName(std::string_view what, std::string_view name);
  // Checks that concern several parts together.
  Status ReadPrivacy(const proto::PrivacyDef& claim);
  Status CheckDataSets() const;
  Status CheckLocal() const;
  Status CheckMeasured() const;

  Status ReadModel(const proto::ModelProgram& message);
  Status ReadExternalModel(const proto::ModelProgram& message);
  Status ReadVariables(const proto::ModelProgram& message);
  Status LayOut();
  Status CheckScalar(std::string_view what, const std::string& tensor);
  Status ReadKernels(std::string_view kernels);
  Status ReadFeatures(const proto::ModelProgram& message);
  StatusOr<FeatureSpec> ReadFeature(const proto::FeatureBinding& binding);

  Status ReadFlats(const proto::FlatNamesDef& message);
  Status ReadState(const proto::FlatNamesDef& message);
  Status ReadBroadcasts(const proto::FlatNamesDef& message);
  Status ReadNumbers(const proto::FlatNamesDef& message);
  static Status ReadNames(std::string_view what, const google::protobuf::RepeatedPtrField<std::string>& said, int most,
                          std::vector<std::string>& names);
  Status CheckVariableNames() const;
  StatusOr<TensorSpec> Flat(std::string_view name) const;

  Status ReadProgram(const proto::LocalProgramDef& message);
  static Status ReadMechanisms(const proto::LocalProgramDef& message, LocalProgram& program);
  Status ReadSource(const proto::PartSourceDef& message, LocalProgram& program);

  Status ReadPass(const proto::PassDef& message, LocalPass& pass);
  Status ReadModels(const proto::PassDef& message, LocalPass& pass);
  static Status CheckHasNoGraphs(const proto::PassDef& message);
  static Status ReadScalars(const proto::PassDef& message, LocalPass& pass);
  Status ReadFlatGraph(std::string_view what, const std::string& graph_def, bool gradient,
                       std::shared_ptr<const Graph>& out);

  Status ReadAggregation(const proto::AggregationDef& message);
  Status ReadPart(const proto::PartDef& entry, AggregationSpec& spec) const;
  bool Declared(const std::string& name) const;
  Status SumEvaluations();

  // Not make_shared: the constructor is private to this class, and Read returns a const Plan.
  std::unique_ptr<Plan> plan_ = std::make_unique<Plan>();
};

}  // namespace rivulet
