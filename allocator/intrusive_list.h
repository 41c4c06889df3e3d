// A doubly linked list whose links lie in the elements: linking and unlinking never allocate and never fail.
#ifndef CUHEAP_ALLOCATOR_INTRUSIVE_LIST_H_
#define CUHEAP_ALLOCATOR_INTRUSIVE_LIST_H_

namespace cuheap {

template <class T>
struct ListLink {
  T* previous = nullptr;
  T* next = nullptr;
};

// kLink names the link that this list uses: an element can be in several lists, in each at most once, with a link for
// each. The list owns nothing. Threads: none of its own; the pool's lock guards it.
template <class T, ListLink<T> T::* kLink>
class IntrusiveList {
 public:
  T* front() const { return front_; }
  T* back() const { return back_; }
  bool empty() const { return front_ == nullptr; }
  static T* Next(const T* element) { return (element->*kLink).next; }

  void PushFront(T* element) {
    (element->*kLink) = {nullptr, front_};
    (front_ != nullptr ? (front_->*kLink).previous : back_) = element;
    front_ = element;
  }

  void PushBack(T* element) {
    (element->*kLink) = {back_, nullptr};
    (back_ != nullptr ? (back_->*kLink).next : front_) = element;
    back_ = element;
  }

  // REQUIRES: `before` is in this list, the element in none.
  void InsertAfter(T* before, T* element) {
    T* after = (before->*kLink).next;
    (element->*kLink) = {before, after};
    (before->*kLink).next = element;
    (after != nullptr ? (after->*kLink).previous : back_) = element;
  }

  // REQUIRES: the element is in this list.
  void Remove(T* element) {
    ListLink<T>& link = element->*kLink;
    (link.previous != nullptr ? (link.previous->*kLink).next : front_) = link.next;
    (link.next != nullptr ? (link.next->*kLink).previous : back_) = link.previous;
    link = {};
  }

 private:
  T* front_ = nullptr;
  T* back_ = nullptr;
};

}  // namespace cuheap

#endif  // CUHEAP_ALLOCATOR_INTRUSIVE_LIST_H_
