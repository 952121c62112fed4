// Light or dark colours. The page uses the colours of the system, unless the user chooses others.

const KEY = 'quorlock.theme';
const NEXT = { system: 'light', light: 'dark', dark: 'system' };
const SIGNS = { system: '◐', light: '○', dark: '●' };

/** Makes a button switch the colours, and applies the stored choice. */
export function initThemeButton(button) {
  let theme = NEXT[localStorage.getItem(KEY)] ? localStorage.getItem(KEY) : 'system';
  const apply = () => {
    document.documentElement.dataset.theme = theme;
    button.textContent = SIGNS[theme];
    button.setAttribute('aria-label', `Colours: ${theme}`);
    button.title = `Colours: ${theme}`;
    dispatchEvent(new Event('theme'));
  };
  button.addEventListener('click', () => {
    theme = NEXT[theme];
    localStorage.setItem(KEY, theme);
    apply();
  });
  apply();
}
