// Ops of TensorFlow's under another name.
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

TEST(RaiseSynonyms, ShapeOfAVariable_IsThatOfItsValue) {
  ASSERT_OK_AND_ASSIGN(Graph graph, ParseGraphText(R"(
    node { name: "w" op: "VarHandleOp"
           attr { key: "dtype" value { type: DT_FLOAT } }
           attr { key: "shape" value { shape { dim { size: 3 } dim { size: 2 } } } } }
    node { name: "sizes/Read" op: "NoOp" }
    node { name: "sizes" op: "VariableShape" input: "w" attr { key: "out_type" value { type: DT_INT64 } } }
  )"));
  const Node* const sizes = graph.Find("sizes");
  ASSERT_NE(sizes, nullptr);
  EXPECT_EQ(sizes->type(), "Shape");
  EXPECT_EQ(sizes->input(0).node->type(), "ReadVariableOp");
  EXPECT_EQ(sizes->input(0).node->name(), "sizes/Read_");
  ASSERT_OK_AND_ASSIGN(const auto session, Session::Create(std::move(graph)));
  ASSERT_OK_AND_ASSIGN(const auto shapes, session->Run({}, {"sizes"}));
  EXPECT_THAT(shapes[0].flat<int64_t>(), ElementsAre(3, 2));
}

TEST(RaiseSynonyms, ShapeOfAHandleOfUnknownType_IsRefused) {
  EXPECT_THAT(ParseGraphText(R"(
    node { name: "w" op: "Placeholder" attr { key: "T" value { type: DT_RESOURCE } } }
    node { name: "sizes" op: "VariableShape" input: "w" }
  )")
                  .status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'sizes'")));
}

}  // namespace
}  // namespace rivulet
