#include "dataflow/session/session_checkpoint.h"

#include "engine/graph/scope.h"
#include "engine/variables/variables.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temp_folder.h"

namespace rivulet {
namespace {

using ::rivulet::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::unique_ptr<Session> WithVariable(const std::string& name, const Shape& shape) {
  Graph graph;
  const Scope scope(graph);
  Variable(scope, name, shape, Constant(2));
  EXPECT_OK(scope.status());
  auto session = Session::Create(std::move(graph)).value();
  EXPECT_OK(session->Run({}, {}, {kInitTarget}));
  return session;
}

class SessionCheckpointTest : public testing::FolderTest {
 protected:
  CheckpointFolder checkpoints_{FileSystem::Default(), Path("checkpoints")};
};

TEST_F(SessionCheckpointTest, Restored_VariablesAreAsTheyWereSaved) {
  const auto session = WithVariable("w", {2});
  ASSERT_OK(session->SetVariable("w", Tensor::Of<float>({2}, {5, 6})));
  ASSERT_OK(SaveVariables(*session, checkpoints_, 3));
  const auto other = WithVariable("w", {2});
  ASSERT_OK_AND_ASSIGN(const Checkpoint checkpoint, checkpoints_.Latest());
  ASSERT_OK(RestoreVariables(checkpoint, *other));
  EXPECT_THAT(other->GetVariable("w")->flat<float>(), ElementsAre(5, 6));
}

TEST_F(SessionCheckpointTest, AnotherModel_IsRefusedAndKeepsItsValues) {
  ASSERT_OK(SaveVariables(*WithVariable("w", {2}), checkpoints_, 1));
  ASSERT_OK_AND_ASSIGN(const Checkpoint checkpoint, checkpoints_.Latest());
  const auto renamed = WithVariable("v", {2}), reshaped = WithVariable("w", {3});
  EXPECT_THAT(RestoreVariables(checkpoint, *renamed), StatusIs(absl::StatusCode::kNotFound, HasSubstr("'w'")));
  EXPECT_OK(RestoreVariables(checkpoint, *renamed, /*partial=*/true));
  EXPECT_THAT(RestoreVariables(checkpoint, *reshaped),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("float32[3]")));
  EXPECT_THAT(reshaped->GetVariable("w")->flat<float>(), ElementsAre(2, 2, 2));
}

}  // namespace
}  // namespace rivulet
