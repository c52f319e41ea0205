// Which of a library's algorithms a call takes where several do: another one adds in another order,
// so what was chosen once by measuring is kept, and taken again.
#pragma once
#include <optional>
#include <string>

namespace pal {

class AlgorithmChoices {
 public:
  virtual ~AlgorithmChoices() = default;
  // What was chosen for that call: text of who chose. Keys name all that a choice follows from:
  // the call, the library's version, the card.
  virtual std::optional<std::string> find(const std::string& key) = 0;
  // From here on find() gives what is returned: the choice, or that of another process which was
  // first. `measured`: it was found by timing; others are the run's own affair.
  virtual std::string keep(const std::string& key, const std::string& choice, bool measured) = 0;
  // Whether times mean anything: nobody else works on the device.
  virtual bool may_measure() const { return true; }
};

}  // namespace pal
