// Parts of steps as TensorFlow's master registers them.
#include "dataflow/cluster/foreign_graph.h"

#include <google/protobuf/text_format.h>

#include "dataflow/session/session.h"
#include "engine/graphdef/graph_def.h"
#include "proto/graph/graph.pb.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

// As grappler writes it for Neg(Exp(Sqrt(x))).
constexpr char kComposed[] = R"pb(
  node {
    name: "x"
    op: "Placeholder"
    attr {
      key: "dtype"
      value { type: DT_FLOAT }
    }
    attr {
      key: "shape"
      value { shape { dim { size: 2 } } }
    }
  }
  node { name: "before" op: "NoOp" }
  node {
    name: "y"
    op: "_UnaryOpsComposition"
    input: "x"
    input: "^before"
    attr {
      key: "T"
      value { type: DT_FLOAT }
    }
    attr {
      key: "_output_shapes"
      value { list { shape { dim { size: 2 } } } }
    }
    attr {
      key: "op_names"
      value { list { s: "Sqrt" s: "Exp" s: "Neg" } }
    }
  })pb";

proto::GraphDef Parsed(const std::string& text) {
  proto::GraphDef graph;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &graph));
  return graph;
}
proto::GraphDef Without(const proto::GraphDef& graph) {
  proto::GraphDef own;
  EXPECT_TRUE(own.ParseFromString(WithoutForeignNodes(graph.SerializeAsString())));
  return own;
}

TEST(ForeignGraphTest, ComposedUnaryOps_AreAChainOfThem) {
  const proto::GraphDef own = Without(Parsed(kComposed));
  ASSERT_EQ(own.node_size(), 5);
  EXPECT_EQ(own.node(2).name(), "y");
  EXPECT_EQ(own.node(2).op(), "Neg");
  ASSERT_OK_AND_ASSIGN(Graph graph, ParseGraph(own.SerializeAsString()));
  ASSERT_EQ(graph.Find("y")->input(0).node->type(), "Exp");
  const Node* const first = graph.Find("y")->input(0).node->input(0).node;
  EXPECT_EQ(first->type(), "Sqrt");
  ASSERT_EQ(first->control_inputs().size(), 1u);
  EXPECT_EQ(first->control_inputs()[0]->name(), "before");
  ASSERT_OK_AND_ASSIGN(const auto session, Session::Create(std::move(graph)));
  ASSERT_OK_AND_ASSIGN(const auto values, session->Run({{"x", Tensor::Of<float>({2}, {0, 1})}}, {"y"}));
  EXPECT_FLOAT_EQ(values[0].flat<float>()[0], -1.0f);
  EXPECT_FLOAT_EQ(values[0].flat<float>()[1], -2.7182817f);
}

TEST(ForeignGraphTest, CompositionThatWouldGrowWithoutBound_IsRefusedAsAnOpThatDoesNotExist) {
  proto::GraphDef graph = Parsed(kComposed);
  proto::NodeDef& node = *graph.mutable_node(2);
  node.set_device(std::string(100'000, 'd'));
  for (int i = 0; i < 1000; ++i) (*node.mutable_attr())["op_names"].mutable_list()->add_s("Neg");
  const proto::GraphDef own = Without(graph);
  EXPECT_EQ(own.node_size(), 3);
  EXPECT_LT(own.ByteSizeLong(), 2 * graph.ByteSizeLong());
  EXPECT_THAT(ParseGraph(own.SerializeAsString()), StatusIs(absl::StatusCode::kNotFound));
}

TEST(ForeignGraphTest, GraphsOfOurOwn_ComeBackUnchanged) {
  proto::GraphDef graph = Parsed(kComposed);
  graph.mutable_node()->DeleteSubrange(2, 1);
  EXPECT_EQ(WithoutForeignNodes(graph.SerializeAsString()), graph.SerializeAsString());
  EXPECT_EQ(WithoutForeignNodes("no graph"), "no graph");
}

}  // namespace
}  // namespace rivulet
