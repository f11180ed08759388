// Stands before each generated file of a batch (RIVULET_UNITY): protoc gives statics of every file the same names.
#pragma once

#include <google/protobuf/generated_message_reflection.h>
#include <google/protobuf/generated_message_util.h>

#define RIVULET_UNITY_PASTE_(name, id) name##_##id
#define RIVULET_UNITY_NAME_(name, id) RIVULET_UNITY_PASTE_(name, id)
#define schemas RIVULET_UNITY_NAME_(schemas, RIVULET_UNITY_ID)
#define file_default_instances RIVULET_UNITY_NAME_(file_default_instances, RIVULET_UNITY_ID)
