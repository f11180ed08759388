#include "engine/graphdef/raise_synonyms.h"

namespace rivulet {

void RaiseSynonyms(proto::GraphDef& graph) {
  for (proto::NodeDef& node : *graph.mutable_node()) {
    auto& attrs = *node.mutable_attr();
    if (node.op() == "AccumulateNV2") {
      node.set_op("AddN");
      attrs.erase("shape");
    } else if (node.op() == "BatchMatMulV3" && attrs.contains("Ta") && attrs.contains("Tb") && attrs.contains("Tout")) {
      const proto::DataType type = attrs.at("Ta").type();
      if (attrs.at("Tb").type() != type || attrs.at("Tout").type() != type) continue;
      node.set_op("BatchMatMulV2");
      for (const char* name : {"Ta", "Tb", "Tout"}) attrs.erase(name);
      attrs["T"].set_type(type);
    }
  }
}

}  // namespace rivulet
