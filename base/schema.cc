#include "base/schema.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/nearest_name.h"
#include "base/status.h"

namespace millrace {

const Field* Schema::Find(std::string_view name) const {
  const auto it = std::ranges::find(fields_, name, &Field::name);
  return it == fields_.end() ? nullptr : &*it;
}

absl::Status Schema::CheckHas(std::string_view name) const {
  if (Find(name) != nullptr) return absl::OkStatus();
  constexpr size_t kLeastLetters = 3;  // all shorter names are near each other
  std::vector<std::string> names;
  for (const Field& field : fields_) names.push_back(field.name);
  std::string nearest = name.size() < kLeastLetters ? "" : NearestName(name, names);
  if (!nearest.empty()) nearest = absl::StrCat(" (did you mean \"", nearest, "\"?)");
  return absl::NotFoundError(absl::StrCat("no field \"", ToAbsl(name), "\"", nearest,
                                          "; there is: ", fields_.empty() ? "none" : ToString()));
}

void Schema::Set(Field field) {
  const auto it = std::ranges::find(fields_, field.name, &Field::name);
  if (it == fields_.end()) {
    fields_.push_back(std::move(field));
  } else {
    *it = std::move(field);
  }
}

void Schema::Remove(std::string_view name) {
  std::erase_if(fields_, [&](const Field& field) { return field.name == name; });
}

std::string Schema::ToString() const {
  std::string text;
  for (const Field& field : fields_) {
    absl::StrAppend(&text, text.empty() ? "" : ", ", field.name, ": ", ToAbsl(Name(field.dtype)),
                    field.shape.ToString());
  }
  return text;
}

}  // namespace millrace
