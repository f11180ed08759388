#include "engine/graph/op.h"
#include "engine/program/kernel.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::rivulet::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using Kind = AttrDef::Kind;

OpDefBuilder Op(std::string name = "TestOp") { return OpDefBuilder(std::move(name), "engine/ops/test.cc", 7); }

TEST(OpDefBuilderTest, Inputs_TellTypeAttributesNumbersAndLists) {
  const OpDef op = Op().Input("fixed: float")
                       .Input("handle: resource")
                       .Input("same: T")
                       .Input("many: N * T")
                       .Input("mixed: Tlist")
                       .Output("out: T")
                       .Attr("T: {float, double}")
                       .Attr("N: int >= 1")
                       .Attr("Tlist: list(type) >= 1")
                       .Build();
  EXPECT_EQ(op.inputs[0].dtype, DType::kFloat32);
  EXPECT_EQ(op.inputs[1].dtype, DType::kResource);
  EXPECT_EQ(op.inputs[2].type_attr, "T");
  EXPECT_EQ(op.inputs[3].number_attr, "N");
  EXPECT_EQ(op.inputs[3].type_attr, "T");
  EXPECT_EQ(op.inputs[4].type_list_attr, "Tlist");
  EXPECT_EQ(op.inputs[4].type_attr, "");
  EXPECT_EQ(op.registered_at, "engine/ops/test.cc:7");
}

TEST(OpDefBuilderTest, Defaults_AreReadByKind) {
  const OpDef op = Op().Attr("i: int = -3")
                       .Attr("f: float = 0.25")
                       .Attr("b: bool = true")
                       .Attr("s: string = ''")
                       .Attr("t: type = DT_INT64")
                       .Attr("shape: shape = { unknown_rank: true }")
                       .Attr("scalar: shape = {}")
                       .Attr("padding: {'SAME', 'VALID'} = 'VALID'")
                       .Attr("ints: list(int) = [1, 2]")
                       .Attr("none: list(int) = []")
                       .Build();
  EXPECT_EQ(std::get<int64_t>(*op.FindAttr("i")->default_value), -3);
  EXPECT_EQ(std::get<float>(*op.FindAttr("f")->default_value), 0.25f);
  EXPECT_EQ(std::get<bool>(*op.FindAttr("b")->default_value), true);
  EXPECT_EQ(std::get<std::string>(*op.FindAttr("s")->default_value), "");
  EXPECT_EQ(std::get<DType>(*op.FindAttr("t")->default_value), DType::kInt64);
  EXPECT_FALSE(std::get<Shape>(*op.FindAttr("shape")->default_value).known_rank());
  EXPECT_EQ(std::get<Shape>(*op.FindAttr("scalar")->default_value), Shape{});
  EXPECT_EQ(std::get<std::string>(*op.FindAttr("padding")->default_value), "VALID");
  EXPECT_THAT(op.FindAttr("padding")->allowed_strings, ElementsAre("SAME", "VALID"));
  EXPECT_THAT(std::get<std::vector<int64_t>>(*op.FindAttr("ints")->default_value), ElementsAre(1, 2));
  EXPECT_TRUE(std::get<std::vector<int64_t>>(*op.FindAttr("none")->default_value).empty());
}

TEST(OpDefBuilderTest, TypeSets_LimitTypesAndLists) {
  const OpDef op =
      Op().Attr("T: {float, int32} = DT_FLOAT").Attr("list: list({float, double})").Attr("n: numbertype").Build();
  EXPECT_THAT(op.FindAttr("T")->allowed_types, ElementsAre(DType::kFloat32, DType::kInt32));
  EXPECT_EQ(op.FindAttr("list")->kind, Kind::kTypeList);
  EXPECT_THAT(op.FindAttr("list")->allowed_types, ElementsAre(DType::kFloat32, DType::kFloat64));
  EXPECT_EQ(op.FindAttr("n")->allowed_types.size(), 12u);
}

TEST(OpDefBuilderDeathTest, MalformedSignature_StopsWithItsPlace) {
  EXPECT_DEATH(Op().Attr("T {float}"), "Op 'TestOp' \\(engine/ops/test.cc:7\\): 'T \\{float\\}' wants :");
  EXPECT_DEATH(Op().Attr("T: integer"), "wants an attribute type");
  EXPECT_DEATH(Op().Attr("T: {float"), "wants \\}");
  EXPECT_DEATH(Op().Attr("n: int = x"), "wants an integer");
  EXPECT_DEATH(Op().Attr("n: int").Attr("n: int"), "wants each attribute once");
  EXPECT_DEATH(Op().Input("x: T").Build(), "'x' has no type attribute 'T'");
  EXPECT_DEATH(Op().Input("x: N * float").Build(), "'x' has no int attribute 'N'");
  EXPECT_DEATH(Op().Input("x"), "wants :");
}

TEST(OpRegistryTest, GetUnknown_NamesTheNearest) {
  OpRegistry registry;
  registry.Register(Op("MatMul").Build());
  EXPECT_OK(registry.Get("MatMul"));
  EXPECT_THAT(registry.Get("MatMuk"),
              StatusIs(absl::StatusCode::kNotFound, "there is no op 'MatMuk'. Did you mean 'MatMul'?"));
  EXPECT_THAT(registry.Get("Frobnicate"), StatusIs(absl::StatusCode::kNotFound, "there is no op 'Frobnicate'."));
}

TEST(OpRegistryTest, All_IsSortedByName) {
  OpRegistry registry;
  registry.Register(Op("B").Build());
  registry.Register(Op("A").Build());
  ASSERT_EQ(registry.All().size(), 2u);
  EXPECT_EQ(registry.All()[0]->name, "A");
}

TEST(OpRegistryDeathTest, SecondRegistration_NamesBothPlaces) {
  OpRegistry registry;
  registry.Register(OpDefBuilder("X", "engine/ops/one.cc", 1).Build());
  EXPECT_DEATH(registry.Register(OpDefBuilder("X", "engine/ops/two.cc", 2).Build()),
               "Op 'X' is registered twice, at engine/ops/one.cc:1 and at engine/ops/two.cc:2");
}

}  // namespace
}  // namespace rivulet
