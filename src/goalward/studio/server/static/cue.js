// Says that a box goes on below its edge, until one has scrolled there.
export function cue(box) {
  const look = () => box.classList.toggle("more", box.scrollHeight - box.clientHeight - box.scrollTop > 8);
  box.classList.add("cut");
  box.addEventListener("scroll", look, { passive: true });
  new ResizeObserver(look).observe(box);
  new MutationObserver(look).observe(box, { childList: true, subtree: true, attributes: true, attributeFilter: ["hidden"] });
  look();
}
