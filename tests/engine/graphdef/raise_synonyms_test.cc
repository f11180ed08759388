// TensorFlow's ops that are synonyms of others.
#include "engine/graphdef/raise_synonyms.h"

#include <gmock/gmock.h>

#include "dataflow/session/session.h"
#include "engine/graphdef/graph_def.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::rivulet::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(RaiseSynonyms, ShapeOfAVariable_IsThatOfItsValueAlsoBehindAnIdentity) {
  ASSERT_OK_AND_ASSIGN(Graph graph, ParseGraphText(R"(
    node { name: "w" op: "VarHandleOp"
           attr { key: "dtype" value { type: DT_FLOAT } }
           attr { key: "shape" value { shape { dim { size: 3 } dim { size: 2 } } } } }
    node { name: "zeros" op: "Const"
           attr { key: "dtype" value { type: DT_FLOAT } }
           attr { key: "value" value { tensor { dtype: DT_FLOAT tensor_shape { dim { size: 3 } dim { size: 2 } } } } } }
    node { name: "init" op: "AssignVariableOp" input: "w" input: "zeros" }
    node { name: "same" op: "Identity" input: "w:0" }
    node { name: "sizes/Read" op: "NoOp" }
    node { name: "sizes" op: "VariableShape" input: "same" attr { key: "out_type" value { type: DT_INT64 } } }
  )"));
  const Node* const sizes = graph.Find("sizes");
  ASSERT_NE(sizes, nullptr);
  EXPECT_EQ(sizes->type(), "Shape");
  EXPECT_EQ(sizes->input(0).node->type(), "ReadVariableOp");
  EXPECT_EQ(sizes->input(0).node->name(), "sizes/Read_");
  EXPECT_EQ(sizes->input(0).node->input(0).node->name(), "w");
  ASSERT_OK_AND_ASSIGN(const auto session, Session::Create(std::move(graph)));
  ASSERT_OK(session->Run({}, {}, {"init"}));
  ASSERT_OK_AND_ASSIGN(const auto shapes, session->Run({}, {"sizes"}));
  EXPECT_THAT(shapes[0].flat<int64_t>(), ElementsAre(3, 2));
}

TEST(RaiseSynonyms, ShapeOfWhatIsNoVariable_IsRefused) {
  EXPECT_THAT(ParseGraphText(R"(
    node { name: "x" op: "Placeholder" }
    node { name: "sizes" op: "VariableShape" input: "x" }
  )")
                  .status(),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("there is no op 'VariableShape'")));
}

}  // namespace
}  // namespace rivulet
