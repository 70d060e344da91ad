#include "pipeline/predicate.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/nearest_name.h"
#include "base/status.h"
#include "pipeline/predicate/predicate.h"

namespace millrace::pipeline {
namespace {

using Node = Predicate::Node;
using Operand = PredicateOperand;

void CollectFields(const Operand& operand, std::vector<std::string>& fields) {
  for (const Operand& argument : operand.arguments) CollectFields(argument, fields);
  if (!operand.is_field() || std::ranges::find(fields, operand.text) != fields.end()) return;
  fields.push_back(operand.text);
}

void CollectFields(const Node& node, std::vector<std::string>& fields) {
  for (const Node& child : node.children) CollectFields(child, fields);
  if (node.kind != Node::Kind::kCompare && node.kind != Node::Kind::kIn) return;
  // In order of the text: the parser may have swapped the sides.
  const bool swapped = node.kind == Node::Kind::kCompare && node.right.column < node.left.column;
  CollectFields(swapped ? node.right : node.left, fields);
  if (node.kind == Node::Kind::kCompare) CollectFields(swapped ? node.left : node.right, fields);
}

absl::Status FieldError(const Operand& operand, const Field& field, std::string_view text) {
  return PredicateError(
      operand.column,
      ToStd(absl::StrCat("field \"", field.name, "\" is ", ToAbsl(Name(field.dtype)),
                         field.dtype == DType::kBytes ? "" : field.shape.ToString(),
                         ToAbsl(text))));
}

absl::Status CheckScalar(const Operand& operand, const Field& field) {
  if (field.dtype == DType::kBytes || field.shape.rank() == 0) return absl::OkStatus();
  if (field.shape.rank() == 1 && field.shape[0] == 1) return absl::OkStatus();
  if (field.shape.rank() > 1) return FieldError(operand, field, ", not one value");
  return FieldError(operand, field,
                    ToStd(absl::StrCat(", not one value; write ", operand.text,
                                       "[0] for an "
                                       "element or len(",
                                       operand.text, ") for how many")));
}

absl::Status CheckElement(const Operand& operand, const Field& field) {
  if (field.dtype == DType::kBytes) return FieldError(operand, field, ", which has no elements");
  if (field.shape.rank() != 1) {
    return FieldError(operand, field, "; elements are those of fields with one extent");
  }
  if (field.shape[0] == Shape::kUnknown || operand.int_value < field.shape[0]) {
    return absl::OkStatus();
  }
  return FieldError(operand, field, ToStd(absl::StrCat("; it has no element ", operand.int_value)));
}

PredicateType TypeOf(const Operand& operand) {
  switch (operand.kind) {
    case Operand::Kind::kInt:
    case Operand::Kind::kLength:
      return PredicateType::kInt;
    case Operand::Kind::kFloat:
      return PredicateType::kFloat;
    case Operand::Kind::kString:
      return PredicateType::kBytes;
    case Operand::Kind::kCall:
      return operand.type;
    default:
      break;
  }
  switch (operand.dtype) {
    case DType::kBytes:
      return PredicateType::kBytes;
    case DType::kU8:
    case DType::kI32:
    case DType::kI64:
      return PredicateType::kInt;
    default:
      return PredicateType::kFloat;
  }
}

absl::Status ResolveOperand(const Schema& schema, Operand& operand);

// Whole numbers give a whole number; with a floating one among them, all are floating.
absl::Status ResolveCall(const Schema& schema, Operand& call) {
  call.type = PredicateType::kInt;
  for (Operand& argument : call.arguments) {
    MILLRACE_RETURN_IF_ERROR(ResolveOperand(schema, argument));
    const PredicateType type = TypeOf(argument);
    if (type == PredicateType::kBytes) {
      return PredicateError(
          argument.column, ToStd(absl::StrCat(ToAbsl(NameOf(call.function)), " takes numbers, and ",
                                              ToText(argument), " is bytes")));
    }
    if (type == PredicateType::kFloat) call.type = PredicateType::kFloat;
  }
  return absl::OkStatus();
}

absl::Status ResolveOperand(const Schema& schema, Operand& operand) {
  if (operand.kind == Operand::Kind::kCall) return ResolveCall(schema, operand);
  if (!operand.is_field()) return absl::OkStatus();
  const Field* field = schema.Find(operand.text);
  if (field == nullptr) {
    std::vector<std::string> names;
    for (const Field& other : schema.fields()) names.push_back(other.name);
    return PredicateError(operand.column, ToStd(absl::StrCat("no field \"", operand.text, "\"",
                                                             DidYouMean(operand.text, names))));
  }
  operand.dtype = field->dtype;
  if (operand.kind == Operand::Kind::kField) return CheckScalar(operand, *field);
  if (operand.kind == Operand::Kind::kElement) return CheckElement(operand, *field);
  if (field->dtype == DType::kBytes || field->shape.rank() > 0) return absl::OkStatus();
  return FieldError(operand, *field, ", one value without a length");
}

// The type as which the two are compared.
absl::StatusOr<PredicateType> CommonType(const Operand& left, const Operand& right) {
  const PredicateType a = TypeOf(left);
  const PredicateType b = TypeOf(right);
  if (a == b) return a;
  if (a != PredicateType::kBytes && b != PredicateType::kBytes) return PredicateType::kFloat;
  const auto described = [](const Operand& operand, PredicateType type) {
    return absl::StrCat(ToText(operand), ", ",
                        type == PredicateType::kBytes ? "bytes" : "a number");
  };
  return PredicateError(right.column, ToStd(absl::StrCat("cannot compare ", described(left, a),
                                                         ", with ", described(right, b))));
}

absl::Status ResolveList(Node& node) {
  node.type = TypeOf(node.left);
  for (const Operand& literal : node.list) {
    MILLRACE_ASSIGN_OR_RETURN(const PredicateType type, CommonType(node.left, literal));
    if (type == PredicateType::kInt) node.ints.push_back(literal.int_value);
    if (type == PredicateType::kFloat) node.floats.push_back(literal.float_value);
    if (type == PredicateType::kBytes) node.strings.push_back(literal.text);
  }
  std::ranges::sort(node.ints);
  std::ranges::sort(node.floats);
  std::ranges::sort(node.strings);
  return absl::OkStatus();
}

absl::Status ResolveNode(const Schema& schema, Node& node) {
  for (Node& child : node.children) MILLRACE_RETURN_IF_ERROR(ResolveNode(schema, child));
  if (!node.children.empty()) return absl::OkStatus();
  MILLRACE_RETURN_IF_ERROR(ResolveOperand(schema, node.left));
  node.ints.clear();
  node.floats.clear();
  node.strings.clear();
  if (node.kind == Node::Kind::kIn) return ResolveList(node);
  MILLRACE_RETURN_IF_ERROR(ResolveOperand(schema, node.right));
  MILLRACE_ASSIGN_OR_RETURN(node.type, CommonType(node.left, node.right));
  if (node.compare != Node::Compare::kStartsWith || node.type == PredicateType::kBytes) {
    return absl::OkStatus();
  }
  return PredicateError(node.left.column, ToStd(absl::StrCat("starts_with takes bytes, and ",
                                                             ToText(node.left), " is a number")));
}

}  // namespace

absl::StatusOr<Predicate> Predicate::Parse(std::string_view text) {
  MILLRACE_ASSIGN_OR_RETURN(Node root, ParsePredicate(text));
  Predicate predicate;
  predicate.text_ = text;
  CollectFields(root, predicate.fields_);
  predicate.root_ = std::make_shared<const Node>(std::move(root));
  return predicate;
}

const std::string& Predicate::text() const { return text_; }

const std::vector<std::string>& Predicate::fields() const { return fields_; }

absl::Status Predicate::Resolve(const Schema& schema) {
  Node root = *root_;  // copies of this predicate keep theirs
  MILLRACE_RETURN_IF_ERROR(ResolveNode(schema, root));
  root_ = std::make_shared<const Node>(std::move(root));
  return absl::OkStatus();
}

}  // namespace millrace::pipeline
